import java.lang.foreign.*; import jdk.incubator.vector.*; import java.util.concurrent.*;
public class Bw {
  static final MemorySegment ALL=MemorySegment.NULL.reinterpret(Long.MAX_VALUE);
  static final VectorSpecies<Integer> I=IntVector.SPECIES_PREFERRED;
  static final java.nio.ByteOrder LE=java.nio.ByteOrder.LITTLE_ENDIAN;
  static int read(long a,long n){ var s0=IntVector.zero(I);var s1=s0;var s2=s0;var s3=s0;
    for(long i=0;i<n;i+=256){ s0=s0.add(IntVector.fromMemorySegment(I,ALL,a+i,LE)); s1=s1.add(IntVector.fromMemorySegment(I,ALL,a+i+64,LE)); s2=s2.add(IntVector.fromMemorySegment(I,ALL,a+i+128,LE)); s3=s3.add(IntVector.fromMemorySegment(I,ALL,a+i+192,LE)); }
    return s0.add(s1).add(s2).add(s3).reduceLanes(VectorOperators.ADD);}
  static float fmaPeak(int n){ var F=FloatVector.SPECIES_PREFERRED; var b=FloatVector.broadcast(F,0.999f); var c=FloatVector.broadcast(F,0.001f);
   var a0=b;var a1=b;var a2=b;var a3=b;var a4=b;var a5=b;var a6=b;var a7=b; var a8=b;var a9=b;
   for(int i=0;i<n;i++){a0=a0.fma(b,c);a1=a1.fma(b,c);a2=a2.fma(b,c);a3=a3.fma(b,c);a4=a4.fma(b,c);a5=a5.fma(b,c);a6=a6.fma(b,c);a7=a7.fma(b,c);a8=a8.fma(b,c);a9=a9.fma(b,c);}
   return a0.add(a1).add(a2).add(a3).add(a4).add(a5).add(a6).add(a7).add(a8).add(a9).reduceLanes(VectorOperators.ADD);}
  public static void main(String[] z)throws Exception{ long n=Long.parseLong(z[0])<<20; var seg=Arena.global().allocate(n,4096); for(long i=0;i<n;i+=8) seg.set(ValueLayout.JAVA_LONG,i,i*31);
   for(int th=1;th<=2;th++) for(int rep=0;rep<8;rep++){ var ex=Executors.newFixedThreadPool(th); final int T=th; int it=(int)Math.max(1,(2L<<30)/n); long t0=System.nanoTime(); var fs=new java.util.ArrayList<Future<Integer>>(); for(int t=0;t<th;t++){final int k=t; fs.add(ex.submit(()->{int s=0;for(int i=0;i<it;i++) s+=read(seg.address()+n/T*k,n/T);return s;}));} int s=0; for(var f:fs)s+=f.get(); long t1=System.nanoTime();
     var gs=new java.util.ArrayList<Future<Float>>(); for(int t=0;t<th;t++) gs.add(ex.submit(()->fmaPeak(20_000_000))); float q=0; for(var f:gs) q+=f.get(); long t2=System.nanoTime();
     System.out.printf("th %d read %.1f GB/s fma %.0f GFLOP/s %d %f%n",th,(double)n*it/(t1-t0),20e6*10*2*I.length()*th/(t2-t1),s,q); ex.shutdown();} }
}
