// A transaction manager, Narayana, that moves money between two servers, and stops at a place where it is to be killed; and the one that
// comes after it, which finds out what is in doubt, and decides it.

import com.arjuna.ats.arjuna.common.CoordinatorEnvironmentBean;
import com.arjuna.ats.arjuna.common.ObjectStoreEnvironmentBean;
import com.arjuna.ats.arjuna.common.RecoveryEnvironmentBean;
import com.arjuna.ats.arjuna.common.arjPropertyManager;
import com.arjuna.ats.arjuna.common.recoveryPropertyManager;
import com.arjuna.ats.arjuna.recovery.RecoveryManager;
import com.arjuna.ats.internal.jta.recovery.arjunacore.JTANodeNameXAResourceOrphanFilter;
import com.arjuna.ats.internal.jta.recovery.arjunacore.JTATransactionLogXAResourceOrphanFilter;
import com.arjuna.ats.internal.jta.recovery.arjunacore.XARecoveryModule;
import com.arjuna.ats.internal.arjuna.recovery.AtomicActionRecoveryModule;
import com.arjuna.ats.jta.common.JTAEnvironmentBean;
import com.arjuna.ats.jta.common.jtaPropertyManager;
import com.arjuna.ats.jta.recovery.XAResourceRecoveryHelper;
import com.arjuna.common.internal.util.propertyservice.BeanPopulator;
import jakarta.transaction.TransactionManager;
import java.sql.Connection;
import java.sql.Statement;
import java.util.List;
import javax.sql.XAConnection;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.postgresql.xa.PGXADataSource;

public class Coordinator {
    static PGXADataSource server(String port) {
        PGXADataSource source = new PGXADataSource();
        source.setServerNames(new String[] {System.getenv("PGHOST")});
        source.setPortNumbers(new int[] {Integer.parseInt(port)});
        source.setDatabaseName(System.getenv("PGDATABASE"));
        source.setUser(System.getenv("PGUSER"));
        return source;
    }

    // The log of the manager, and whom it may decide for.
    static void configure(String directory) throws Exception {
        for (String store : new String[] {null, "stateStore", "communicationStore"}) {
            BeanPopulator.getNamedInstance(ObjectStoreEnvironmentBean.class, store).setObjectStoreDir(directory);
        }
        arjPropertyManager.getCoreEnvironmentBean().setNodeIdentifier("1");
        CoordinatorEnvironmentBean coordinator = arjPropertyManager.getCoordinatorEnvironmentBean();
        coordinator.setTransactionStatusManagerEnable(false);
        coordinator.setDefaultTimeout(600);
        JTAEnvironmentBean jta = jtaPropertyManager.getJTAEnvironmentBean();
        jta.setXaRecoveryNodes(List.of("1"));
        // Whoever prepared without a decision in the log was killed, and is not slow.
        jta.setOrphanSafetyInterval(0);
        jta.setXaResourceOrphanFilters(List.of(new JTATransactionLogXAResourceOrphanFilter(), new JTANodeNameXAResourceOrphanFilter()));
    }

    static void stopAt(String place, String here) {
        if (!place.equals(here)) return;
        System.out.println("at " + here);
        System.out.flush();
        try {
            Thread.sleep(Long.MAX_VALUE);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    // Stops before a call to the server's resource.
    record Watched(XAResource resource, String name, String place) implements XAResource {
        public void commit(Xid xid, boolean onePhase) throws XAException {
            stopAt(place, "commit of " + name);
            resource.commit(xid, onePhase);
        }
        public int prepare(Xid xid) throws XAException {
            stopAt(place, "prepare of " + name);
            return resource.prepare(xid);
        }
        public void start(Xid xid, int flags) throws XAException { resource.start(xid, flags); }
        public void end(Xid xid, int flags) throws XAException { resource.end(xid, flags); }
        public void rollback(Xid xid) throws XAException { resource.rollback(xid); }
        public void forget(Xid xid) throws XAException { resource.forget(xid); }
        public Xid[] recover(int flag) throws XAException { return resource.recover(flag); }
        public boolean isSameRM(XAResource other) { return this == other; }
        public int getTransactionTimeout() throws XAException { return resource.getTransactionTimeout(); }
        public boolean setTransactionTimeout(int seconds) throws XAException { return resource.setTransactionTimeout(seconds); }
    }

    static void move(XAConnection from, XAConnection to, String number, String place) throws Exception {
        TransactionManager manager = com.arjuna.ats.jta.TransactionManager.transactionManager();
        manager.begin();
        Watched first = new Watched(from.getXAResource(), "first", place), second = new Watched(to.getXAResource(), "second", place);
        manager.getTransaction().enlistResource(first);
        manager.getTransaction().enlistResource(second);
        change(from, "update account set balance = balance - 10", number);
        change(to, "update account set balance = balance + 10", number);
        manager.getTransaction().delistResource(first, XAResource.TMSUCCESS);
        manager.getTransaction().delistResource(second, XAResource.TMSUCCESS);
        manager.commit();
    }

    static void change(XAConnection connection, String update, String number) throws Exception {
        try (Connection handle = connection.getConnection(); Statement statement = handle.createStatement()) {
            statement.execute(update);
            statement.execute("insert into moved values ('" + number + "')");
        }
    }

    record Helper(PGXADataSource source) implements XAResourceRecoveryHelper {
        public boolean initialise(String text) { return true; }
        public XAResource[] getXAResources() throws Exception { return new XAResource[] {source.getXAConnection().getXAResource()}; }
    }

    static void recover(PGXADataSource... sources) {
        XARecoveryModule module = new XARecoveryModule();
        for (PGXADataSource source : sources) module.addXAResourceRecoveryHelper(new Helper(source));
        RecoveryEnvironmentBean recovery = recoveryPropertyManager.getRecoveryEnvironmentBean();
        recovery.setRecoveryModules(List.of(new AtomicActionRecoveryModule(), module));
        recovery.setRecoveryBackoffPeriod(1);
        RecoveryManager manager = RecoveryManager.manager(RecoveryManager.DIRECT_MANAGEMENT);
        manager.initialize();
        // What one pass has seen the next one decides.
        manager.scan();
        manager.scan();
        manager.terminate(false);
    }

    // DIRECTORY FIRST_PORT SECOND_PORT recover | DIRECTORY FIRST_PORT SECOND_PORT NUMBER PLACE
    public static void main(String[] arguments) throws Exception {
        configure(arguments[0]);
        PGXADataSource first = server(arguments[1]), second = server(arguments[2]);
        if (arguments[3].equals("recover")) {
            recover(first, second);
        } else {
            XAConnection from = first.getXAConnection(), to = second.getXAConnection();
            move(from, to, arguments[3] + " whole", "nowhere");
            move(from, to, arguments[3], arguments[4]);
        }
        System.out.println("done");
        System.exit(0);
    }
}
